/* test_call.c -- the tensors of a call: which there must be, what newer and older callers give, what a zero
 * length leaves in the outputs of every operation. */
#include "call.h"
#include "mod.h"
#include "empty.h"
#include "named.h"
#include "runtime_fixture.h"

static void versions_agree(void **state)
{
  (void)state;
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", FATUNE_VERSION_MAJOR, FATUNE_VERSION_MINOR, FATUNE_VERSION_PATCH);
  assert_string_equal(text, FATUNE_VERSION); /* CMake's */
  assert_string_equal(fatune_version(), FATUNE_VERSION);
}

/* -- which tensors there must be */

static fatune_tensor some[FAT_TENSORS];

/* All of them, by the order of the table. */
static void give_all(fatune_tensors *t, const fatune_tensor **slot[FAT_TENSORS])
{
  *t = (fatune_tensors){.size = sizeof *t, .scale = 1};
  const fatune_tensor **const slots[] = {
      &t->Q,      &t->K,      &t->V,      &t->O,      &t->LSE,    &t->dO,     &t->dQ,     &t->dK,
      &t->dV,     &t->sink,   &t->slopes, &t->dsink,  &t->used_q, &t->used_k, &t->lpad,   &t->dLSE,
      &t->prefix, &t->cu_q,   &t->cu_k,   &t->lo,     &t->hi,     &t->rng,    &t->attend, &t->bias,
      &t->dbias,  &t->table0, &t->table1, &t->table2, &t->table3, &t->blocks};
  _Static_assert(sizeof slots / sizeof *slots == FAT_TENSORS, "every tensor");
  for (int i = 0; i < FAT_TENSORS; i++) {
    some[i] = (fatune_tensor){(void *)(uintptr_t)(0x10000 * (i + 1)), {1024 + i, 512, 128}};
    slot[i] = slots[i];
    *slot[i] = &some[i];
  }
}

/* Those that a problem takes. */
static void give_taken(const fat_problem *p, fatune_tensors *t, const fatune_tensor **slot[FAT_TENSORS])
{
  give_all(t, slot);
  for (int i = 0; i < FAT_TENSORS; i++)
    if (fat_tensors_role(p, i) == FAT_ROLE_NONE)
      *slot[i] = NULL;
}

/* The call that these tensors of a problem make. */
static fat_status filled(const fat_problem *p, const fatune_tensors *t, fat_call *call, fat_error *why)
{
  fat_call_form form;
  uint64_t bits;
  fat_call_form_of(p, &form);
  return fat_call_fill(&form, p, t, call, &bits, why);
}

/* A scalar is in its range where the family has it, and else 0. */
static void scalars_have_their_range(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    float softcap, dropout;
    bool good;
  } calls[] = {
      {"fwd-f16-b2-h2-q3-k4-d64", 0, 0, true},
      {"fwd-f16-b2-h2-q3-k4-d64", 30, 0, false},
      {"fwd-f16-b2-h2-q3-k4-d64-softcap", 30, 0, true},
      {"fwd-f16-b2-h2-q3-k4-d64-softcap", 0, 0, false},
      {"fwd-f16-b2-h2-q3-k4-d64-softcap", -1, 0, false},
      {"fwd-f16-b2-h2-q3-k4-d64-softcap", INFINITY, 0, false},
      {"fwd-f16-b2-h2-q3-k4-d64-softcap", NAN, 0, false},
      {"fwd-f16-b2-h2-q3-k4-d64-drop", 0, 0, true},
      {"fwd-f16-b2-h2-q3-k4-d64-drop", 0, 0.999f, true},
      {"fwd-f16-b2-h2-q3-k4-d64-drop", 0, 1, false},
      {"fwd-f16-b2-h2-q3-k4-d64-drop", 0, -0.1f, false},
      {"fwd-f16-b2-h2-q3-k4-d64", 0, 0.1f, false},
  };
  for (size_t x = 0; x < sizeof calls / sizeof *calls; x++) {
    const fat_problem p = problem_of(calls[x].problem);
    const fatune_tensor **slot[FAT_TENSORS];
    fatune_tensors t;
    fat_call call;
    fat_error why = {0};
    give_taken(&p, &t, slot);
    t.softcap = calls[x].softcap;
    t.dropout = calls[x].dropout;
    assert_int_equal(filled(&p, &t, &call, &why), calls[x].good ? FAT_OK : FAT_E_INPUT);
    if (calls[x].good)
      assert_true(call.scalar[FAT_CAP] == calls[x].softcap && call.scalar[FAT_RATE] == calls[x].dropout);
    else
      assert_non_null(
          strstr(why.text, calls[x].softcap == 0 && calls[x].dropout != 0 ? "dropout is " : "softcap is "));
  }
}

static void every_tensor_has_its_role(void **state)
{
  (void)state;
  const char *const problems[] = {"fwd-f16-b2-h2-q3-k4-d64",
                                  "bwd-f16-b2-h2-q3-k4-d64",
                                  "fwd-f16-b2-h2-q3-k4-d64-sink",
                                  "bwd-f16-b2-h2-q3-k4-d64-used",
                                  "fwd-f16-b2-h2-q3-k4-d64-lpad",
                                  "bwd-f16-b2-h2-q3-k4-d64-dlse",
                                  "bwd-f16-b2-h2-q3-k4-d64-causal-prefix",
                                  "fwd-f16-b2-h2-q3-k4-d64-varlen",
                                  "bwd-f16-b2-h2-q3-k4-d64-iv"};
  for (size_t x = 0; x < sizeof problems / sizeof *problems; x++) {
    const fat_problem p = problem_of(problems[x]);
    const fatune_tensor **slot[FAT_TENSORS];
    fatune_tensors t;
    fat_call_form form;
    fat_call call;
    uint64_t bits;
    fat_call_form_of(&p, &form);
    give_taken(&p, &t, slot);
    MUST(fat_call_fill(&form, &p, &t, &call, &bits, err));
    for (int i = 0; i < FAT_TENSORS; i++) {
      const bool there = fat_tensors_role(&p, i) != FAT_ROLE_NONE;
      assert_ptr_equal(call.tensor[i].data, there ? some[i].data : NULL);
      assert_int_equal(call.tensor[i].stride[0], there ? 1024 + i : 0);
    }
    for (int i = 0; i < FAT_TENSORS; i++) { /* one missing, or one too many */
      const fat_role role = fat_tensors_role(&p, i);
      const fatune_tensor *kept = *slot[i];
      fat_error err = {0};
      char name[64];
      snprintf(name, sizeof name, "tensor %s is %s", fat_tensors[i].name,
               role == FAT_ROLE_NONE ? "none of this operation" : "NULL");
      *slot[i] = kept ? NULL : &some[i];
      assert_int_equal(fat_call_fill(&form, &p, &t, &call, &bits, &err),
                       role == FAT_ROLE_WANTED || role == FAT_ROLE_ASIDE ? FAT_OK : FAT_E_INPUT);
      if (role != FAT_ROLE_WANTED && role != FAT_ROLE_ASIDE && !strstr(err.text, name))
        fail_msg("'%s' does not say '%s'", err.text, name);
      *slot[i] = kept;
    }
  }
}

/* A table's strides are its size, which kernels trust. */
static void tables_have_a_size(void **state)
{
  (void)state;
  static const struct {
    int64_t all, row;
    bool good;
  } sizes[] = {{1, 1, true},  {12, 4, true},  {INT32_MAX, INT32_MAX, true}, {0, 0, false}, {4, 0, false},
               {4, 5, false}, {-4, 2, false}, {INT64_C(1) << 31, 1, false}};
  fat_problem p = problem_of("fwd-f16-b2-h2-q3-k4-d64");
  MUST(fat_mod_add("s + table1[h, j]", FAT_MOD, &p, err));
  for (size_t x = 0; x < sizeof sizes / sizeof *sizes; x++) {
    const fatune_tensor **slot[FAT_TENSORS];
    fatune_tensors t;
    fat_call call;
    fat_error why = {0};
    give_taken(&p, &t, slot);
    some[FAT_TABLE + 1].stride[0] = sizes[x].all;
    some[FAT_TABLE + 1].stride[2] = sizes[x].row;
    assert_int_equal(filled(&p, &t, &call, &why), sizes[x].good ? FAT_OK : FAT_E_INPUT);
    if (!sizes[x].good && !strstr(why.text, "table1 has"))
      fail_msg("%s", why.text);
  }
}

/* Sums of elements that are shared come in any order: not where equal bits are asked for. */
static void sums_of_equal_bits(void **state)
{
  (void)state;
  static const char *const problems[] = {"bwd-f16-b2-h3-q4-k4-d64-bias-dbias-det",
                                         "bwd-f16-b2-h3-q4-k4-d64-bias-dbias"};
  for (int x = 0; x < 2; x++)
    for (int shared = -1; shared < 3; shared++) {
      const fat_problem p = problem_of(problems[x]);
      const fatune_tensor **slot[FAT_TENSORS];
      fatune_tensors t;
      fat_call call;
      fat_error why = {0};
      give_taken(&p, &t, slot);
      if (shared >= 0)
        some[FAT_DBIASES].stride[shared] = 0;
      const bool good = shared < 0 || x == 1;
      assert_int_equal(filled(&p, &t, &call, &why), good ? FAT_OK : FAT_E_INPUT);
      assert_true(good || strstr(why.text, "as det asks for"));
    }
}

/* Blocks, too, have sizes of the call's. */
static void blocks_have_sizes(void **state)
{
  (void)state;
  fat_problem family, p;
  fatune_sizes s = {.size = sizeof s, .b = 1, .h = 2, .q = 256, .k = 512, .block_q = 64, .block_k = 128};
  MUST(fat_problem_parse_family("fwd-f16-d64-bs", &family, err));
  MUST(fat_call_sizes(&s, &family, &p, err));
  assert_true(p.arg[FAT_BLOCKSPARSE][0] == 64 && p.arg[FAT_BLOCKSPARSE][1] == 128);
  s.block_k = 0;
  assert_int_equal(fat_call_sizes(&s, &family, &p, NULL), FAT_E_INPUT);
}

/* Of a row tensor only its own element counts; each is named. */
static void alignment_is_told_by_name(void **state)
{
  (void)state;
  const fat_problem p = problem_of("bwd-f16-b2-h2-q3-k4-d64");
  const fatune_tensor **slot[FAT_TENSORS];
  fatune_tensors t;
  fat_call_form form;
  fat_call call;
  uint64_t bits;
  fat_call_form_of(&p, &form);
  for (int i = 0; i < FAT_TENSORS; i++) {
    if (fat_tensors_role(&p, i) == FAT_ROLE_NONE)
      continue;
    give_all(&t, slot);
    for (int j = 0; j < FAT_TENSORS; j++) {
      some[j].stride[0] = 1024;
      *slot[j] = fat_tensors_role(&p, j) == FAT_ROLE_NONE ? NULL : *slot[j];
    }
    const bool row = fat_tensors[i].width == FAT_WIDE_1;
    fat_error err = {0};
    char name[96];
    some[i].data = (char *)some[i].data + (row ? 4 : 8);
    MUST(fat_call_fill(&form, &p, &t, &call, &bits, err));
    assert_int_equal(bits & 15, row ? 0 : 8);
    some[i].data = (char *)some[i].data + (row ? 2 : 1);
    snprintf(name, sizeof name, "tensor %s lies at an address that is no multiple of its elements' size, %d",
             fat_tensors[i].name, row ? 4 : 2);
    assert_int_equal(fat_call_fill(&form, &p, &t, &call, &bits, &err), FAT_E_ALIGNMENT);
    if (!strstr(err.text, name))
      fail_msg("'%s' does not say '%s'", err.text, name);
  }
}

/* -- structs of other releases */

typedef struct small {
  size_t size;
  uint64_t first, added;
} small;

static void structs_of_other_releases(void **state)
{
  (void)state;
  fat_error err = {0};
  union {
    small known;
    unsigned char bytes[FAT_CALL_STRUCT + 8];
  } from = {.known = {.first = 7, .added = 9}};
  small to;
  from.known.size = offsetof(small, added); /* older: what it lacks is 0 */
  MUST(fat_call_struct("small", &from, offsetof(small, added), sizeof to, &to, err));
  assert_true(to.first == 7 && to.added == 0);
  from.known.size = sizeof to;
  MUST(fat_call_struct("small", &from, offsetof(small, added), sizeof to, &to, err));
  assert_true(to.first == 7 && to.added == 9);
  from.known.size = FAT_CALL_STRUCT; /* newer, and nothing of it is used */
  MUST(fat_call_struct("small", &from, offsetof(small, added), sizeof to, &to, err));
  from.bytes[FAT_CALL_STRUCT - 1] = 1;
  assert_int_equal(fat_call_struct("small", &from, offsetof(small, added), sizeof to, &to, &err),
                   FAT_E_UNSUPPORTED);
  assert_non_null(strstr(err.text, "small uses fields that this libfatune"));
  const size_t absurd[] = {0, offsetof(small, added) - 1, FAT_CALL_STRUCT + 1, SIZE_MAX, SIZE_MAX / 2};
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
    from.known.size = absurd[i];
    assert_int_equal(fat_call_struct("small", &from, offsetof(small, added), sizeof to, &to, &err),
                     FAT_E_INPUT);
    assert_non_null(strstr(err.text, "set it to sizeof(small)"));
  }
}

/* An uninitialised `size` is an error wherever a struct is taken, and no memory behind it is read. */
static void no_size_is_believed(void **state)
{
  (void)state;
  fatune *h = NULL;
  fatune_plan *p = NULL;
  fatune_options o = {.size = SIZE_MAX};
  EXPECT(FATUNE_ERR_INPUT, "fatune_options.size", fatune_open(&o, &h));
  store_usual();
  h = open_usual();
  fatune_request r = request_of(ASKED, FATUNE_FALLBACK);
  r.size = (size_t)1 << 40;
  EXPECT(FATUNE_ERR_INPUT, "fatune_request.size", fatune_plan_make(h, &r, &p));
  EXPECT(FATUNE_ERR_INPUT, "fatune_request.size", fatune_supported(h, &r));
  p = plan_of(h, ASKED);
  attention a = attention_make(ASKED, 0, 0);
  fatune_tensors t = *tensors_of(&a);
  t.size = 0x7f0000000000;
  EXPECT(FATUNE_ERR_INPUT, "fatune_tensors.size", fatune_run(p, &t, NULL, NULL, NULL));
  t.size = offsetof(fatune_tensors, dO); /* the first version's; what lies behind it is not looked at */
  t.dO = t.Q;
  MUST_RUN(fatune_run(p, &t, NULL, NULL, NULL));
  t.size = sizeof t;
  EXPECT(FATUNE_ERR_INPUT, "tensor dO is none of this operation", fatune_run(p, &t, NULL, NULL, NULL));
  attention_free(&a);
  fatune_plan_free(p);
  fatune_close(h);
}

/* -- zero lengths */

/* Every output that has rows is filled, and no other memory. */
static void a_zero_length_fills_the_outputs(void **state)
{
  (void)state;
  static const struct {
    const char *problem;
    int filled[FAT_TENSORS]; /* elements, by the order of the table */
    float lse;
    bool shared; /* by all batches, heads and rows: the gradient of the bias */
  } cases[] = {
      {"fwd-f32-b2-h4k2-q3-k0-d8v16", {[FAT_O] = 2 * 4 * 3 * 16, [FAT_LSE] = 24}, INFINITY, false},
      {"fwd-f32-b2-h4k2-q3-k0-d8v16-partial", {[FAT_O] = 2 * 4 * 3 * 16, [FAT_LSE] = 24}, -INFINITY, false},
      {"fwd-f32-b2-h4k2-q0-k5-d8", {0}, 0, false},
      {"bwd-f32-b2-h4k2-q3-k0-d8v16", {[FAT_DQ] = 2 * 4 * 3 * 8}, 0, false},
      {"bwd-f32-b2-h4k2-q0-k5-d8v16", {[FAT_DK] = 2 * 2 * 5 * 8, [FAT_DV] = 2 * 2 * 5 * 16}, 0, false},
      {"bwd-f32-b2-h4k2-q0-k5-d8-bias-dbias", {[FAT_DK] = 2 * 2 * 5 * 8, [FAT_DV] = 2 * 2 * 5 * 8}, 0, false},
      {"bwd-f32-b2-h4k2-q0-k5-d8-bias-dbias",
       {[FAT_DK] = 2 * 2 * 5 * 8, [FAT_DV] = 2 * 2 * 5 * 8, [FAT_DBIASES] = 5},
       0,
       true},
      {"bwd-f32-b0-h4k2-q3-k5-d8v16", {0}, 0, false},
  };
  enum { ROOM = 1024 };
  fat_driver *driver;
  MUST(fat_driver_open(&driver, err));
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    const fat_problem p = problem_of(cases[c].problem);
    fat_call call = {.scale = 1};
    for (int t = 0; t < FAT_TENSORS; t++) {
      const fat_extent e = fat_tensors_extent(&p, t);
      const int64_t row = e.size[3], head = row * e.size[2], batch = head * e.size[1];
      const bool shared = cases[c].shared && t == FAT_DBIASES;
      call.tensor[t] =
          (fat_view){device_memory(ROOM * 4), {shared ? 0 : batch, shared ? 0 : head, shared ? 0 : row}};
      assert_int_equal(cu.cuMemsetD32_v2((uintptr_t)call.tensor[t].data, 0x40e00000, ROOM), 0); /* 7 */
    }
    MUST(fat_empty_write(driver, &p, &call, NULL, err));
    for (int t = 0; t < FAT_TENSORS; t++) {
      float got[ROOM];
      assert_int_equal(cu.cuMemcpyDtoH_v2(got, (uintptr_t)call.tensor[t].data, sizeof got), 0);
      for (int i = 0; i < ROOM; i++) {
        const float right = i >= cases[c].filled[t] ? 7 : t == FAT_LSE ? cases[c].lse : 0;
        if (got[i] != right)
          fail_msg("%s: %s[%d] is %g, not %g", cases[c].problem, fat_tensors[t].name, i, (double)got[i],
                   (double)right);
      }
    }
  }
  fat_driver_close(driver);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(versions_agree),
      cmocka_unit_test(scalars_have_their_range),
      cmocka_unit_test(every_tensor_has_its_role),
      cmocka_unit_test(tables_have_a_size),
      cmocka_unit_test(sums_of_equal_bits),
      cmocka_unit_test(blocks_have_sizes),
      cmocka_unit_test(alignment_is_told_by_name),
      cmocka_unit_test(structs_of_other_releases),
      cmocka_unit_test_setup(no_size_is_believed, begin),
      cmocka_unit_test_setup(a_zero_length_fills_the_outputs, begin),
  };
  return cmocka_run_group_tests(tests, group_open, group_close);
}
