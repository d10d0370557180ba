
% if lists ~= "rows" then
// Ahead of the launches above: the tiles of K and V of each tile of Q.
extern "C" __global__ void __launch_bounds__(32)
$(entry "lists")(const call a, i32 *lists)
{
  overlap_next();
  $(pieces > 0 and "list_pieces" or "list_keys")(a, lists, i32(block_id()));
}
% end
% if lists ~= "keys" then
// Ahead of them: the tiles of Q of each tile of K and V.
extern "C" __global__ void __launch_bounds__(32)
$(entry "turned")(const call a, i32 *lists)
{
  overlap_next();
  list_rows(a, lists, i32(block_id()));
}
% end
