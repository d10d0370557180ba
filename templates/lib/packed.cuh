// packed.cuh -- where the rows of heads that share K and V lie, when tiles of Q hold rows of all of them: for calls
// with few rows, which then fill a tile and read K and V once for all these heads.

//: power_of_2 -- a number of heads of which boxes have as many rows each, 16 at most: rows of tiles are divided by it again and again
struct power_of_2 {
  i32 log;
  power_of_2() = default;
  __device__ __forceinline__ explicit power_of_2(i32 x) : log((x > 1) + (x > 2) + (x > 4) + (x > 8)) {}
};
__device__ __forceinline__ i32 operator*(i32 x, power_of_2 y)
{
  return x << y.log;
}
__device__ __forceinline__ i32 operator/(i32 x, power_of_2 y)
{
  return x >> y.log;
}
__device__ __forceinline__ i32 operator%(i32 x, power_of_2 y)
{
  return x & ((1 << y.log) - 1);
}

//: packed_rows -- the rows of such heads as rows of one matrix: row r is row r / peers of head r % peers. A row's
// number times this, as times a stride, is where that row lies.
struct packed_rows {
  i64 n, h;  // from row to row, head to head
  $(grouped and "power_of_2" or "i32") peers; // heads that share K and V
};
__device__ __forceinline__ i64 operator*(i64 r, const packed_rows &by)
{
  return i32(r) / by.peers * by.n + i32(r) % by.peers * by.h;
}

//: packed_floats -- one number for each of such rows
struct packed_floats {
  float *data;
  packed_rows by;
  __device__ __forceinline__ explicit operator bool() const { return data; }
  __device__ __forceinline__ float &operator[](i64 r) const { return data[r * by]; }
};
