/* mod.h -- what users make of scores and which pairs they keep: one small expression, parsed, typed, printed
 * and differentiated here.
 *
 *   score  s + table0[h] * (j - i)             a number: what the score s becomes
 *   mask   itable0[i] == itable0[j]            a bool: whether row i sees key j
 *
 * docs/mods.md has the grammar. A problem text names an expression by a hash of its canonical text, `mod` or
 * `mask` and 16 digits; what it says is kept here, for the whole process, once somebody has told it. */
#ifndef FAT_MOD_H
#define FAT_MOD_H

#include "problem.h"
#include "text.h"

enum { FAT_MOD_TEXT = 4096, FAT_MOD_DEPTH = 64, FAT_MOD_NODES = 2048, FAT_MOD_TABLES = 4 };

typedef enum fat_mod_type { FAT_MOD_BOOL, FAT_MOD_WHOLE, FAT_MOD_NUMBER } fat_mod_type;

/* ORDER MOD OP */
typedef enum fat_mod_op {
  FAT_MOD_LITERAL, /* its value is in `whole` or `number` */
  FAT_MOD_S,
  FAT_MOD_BATCH,
  FAT_MOD_HEAD,
  FAT_MOD_I,
  FAT_MOD_J,
  FAT_MOD_Q,
  FAT_MOD_K,
  FAT_MOD_OR,
  FAT_MOD_AND,
  FAT_MOD_NOT,
  FAT_MOD_LT,
  FAT_MOD_LE,
  FAT_MOD_GT,
  FAT_MOD_GE,
  FAT_MOD_EQ,
  FAT_MOD_NE,
  FAT_MOD_ADD,
  FAT_MOD_SUB,
  FAT_MOD_MUL,
  FAT_MOD_OVER,  /* x / y, a number */
  FAT_MOD_FLOOR, /* x // y, of whole numbers, downwards; 0 where y is 0 */
  FAT_MOD_REST,  /* x % y = x - x // y * y */
  FAT_MOD_MINUS,
  FAT_MOD_ABS,
  FAT_MOD_MIN,
  FAT_MOD_MAX,
  FAT_MOD_EXP,
  FAT_MOD_LOG,
  FAT_MOD_TANH,
  FAT_MOD_SELECT,
  FAT_MOD_LOOKUP, /* tableN[x], tableN[y, x], itableN: indices beyond the ends count as the ends */
  FAT_MOD_FLOAT,  /* a whole number as a number; is not written */
  FAT_MOD_OPS
} fat_mod_op;

typedef struct fat_mod_row {
  const char *name;
  int of;    /* operands */
  int binds; /* how closely: of operators; 0: of all else */
} fat_mod_row;
extern const fat_mod_row fat_mod_rows[FAT_MOD_OPS];
enum { FAT_MOD_UNARY = 7 }; /* how closely a minus binds */

/* Operands stand before what is made of them, and equal ones are one. */
typedef struct fat_mod_node {
  uint8_t op, type, depth;
  uint8_t table;
  bool varies; /* a number in which s is */
  int16_t of[3];
  union {
    int32_t whole;
    float number;
  };
} fat_mod_node;

typedef struct fat_mod {
  fat_feature which; /* FAT_MOD or FAT_MASK_MOD */
  uint64_t hash;
  int count, root;
  uint8_t tables, whole_tables, wide_tables; /* bit 1 << n: used; of whole numbers; with two indices */
  char *text;                                /* canonical */
  struct fat_mod *next;
  fat_mod_node node[];
} fat_mod;

/* The two features, in the order of a problem's text. */
enum { FAT_MOD_FEATURES = 2 };
extern const fat_feature fat_mod_features[FAT_MOD_FEATURES];

/* Parses a text of a problem's feature and keeps it. FAT_E_INPUT names the column. */
fat_status fat_mod_know(const char *text, fat_feature which, const fat_mod **mod, fat_error *err);
/* The same, added to a problem. */
fat_status fat_mod_add(const char *text, fat_feature which, fat_problem *p, fat_error *err);

/* What a problem says of one of the two features; NULL where it has none, or nobody has told what it says. */
const fat_mod *fat_mod_of(const fat_problem *p, fat_feature which);
/* Whether it says anything of either. */
bool fat_mod_used(const fat_problem *p);
/* FAT_E_INPUT where a problem names what nobody has told, or its two expressions disagree on a table. */
fat_status fat_mod_check(const fat_problem *p, fat_error *err);
/* Which of a problem's features brings a table, FAT_FEATURE_COUNT where none has it; whether of whole
 * numbers, and whether with two indices. */
fat_feature fat_mod_table(const fat_problem *p, int table, bool *whole, bool *wide);

/* Gives a parsed expression its canonical text and hash. */
fat_status fat_mod_name(fat_mod *mod, fat_error *err);
/* Without keeping it. */
fat_status fat_mod_parse(const char *text, fat_feature which, fat_mod **mod, fat_error *err);
void fat_mod_free(fat_mod *mod);

/* Canonical text of a node and what is below it. */
void fat_mod_print(const fat_mod *mod, fat_text *out);
/* With nine digits, which name a float, and a point. */
void fat_mod_print_number(float x, fat_text *out);
/* Lines of CUDA, each ended by a tab, for templates/lib/mods.cuh: v of every node, or b and e, whose sum it
 * is, and, with `slopes`, d, its derivative by s. The last one returns the root's. */
void fat_mod_emit(const fat_mod *mod, bool slopes, fat_text *out);
/* Whether the derivative is 1 whatever s is: s stands once, in a sum. */
bool fat_mod_adds(const fat_mod *mod);
/* The same, where what is added to s grows evenly along rows and keys, which costs little. */
bool fat_mod_adds_evenly(const fat_mod *mod);
/* Lines as those of fat_mod_emit, of such a one: the last returns what it adds to the first pair's s, and by
 * how much more to that of the pair which x.rows_on and x.keys_on lead to. */
void fat_mod_emit_course(const fat_mod *mod, fat_text *out);
/* Lines that look up what such a one asks of tables that is the same for all pairs of a head, for known.at in
 * the lines above. Returns how many numbers these are. */
int fat_mod_emit_known(const fat_mod *mod, fat_text *out);

#endif
