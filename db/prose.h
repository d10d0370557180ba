/* prose.h -- what rows of version 1.0 said in sentences, as SQL that reads it out of them.
 *
 * `d` is the expression of a detail, `m` that of a driver. Used where such a file is brought forward and
 * where such lines are imported; nothing writes these sentences any more. */
#ifndef FAT_DB_PROSE_H
#define FAT_DB_PROSE_H

#define FAT_PROSE_TWIN_OF(d) "iif(" d " LIKE 'twin of %', substr(" d ", 9, instr(" d ", ',') - 9), '')"
/* The first races had no name. */
#define FAT_PROSE_RACE(d)                                                                                    \
  "CASE WHEN " d " LIKE 'finalist: timed in turns with % from %' THEN substr(" d ", instr(" d                \
  ", ' from ') + 6)"                                                                                         \
  " WHEN " d " LIKE 'finalist: %' THEN 'unknown' ELSE '' END"
#define FAT_PROSE_RIVALS(d)                                                                                  \
  "iif(" d " LIKE 'finalist: timed in turns with %', CAST(substr(" d ", 31) AS INTEGER), 0)"
#define FAT_PROSE_MADE_AS(d)                                                                                 \
  "CASE WHEN " d " = 'compiled on demand: the default config' THEN 'default'"                                \
  " WHEN " d " = 'compiled on demand: the default config without tensor maps' THEN 'default without maps'"   \
  " WHEN " d " = 'compiled on demand from its stored source' THEN 'rebuilt'"                                 \
  " WHEN " d " LIKE 'twin of %, compiled on demand' THEN 'twin' ELSE '' END"
#define FAT_PROSE_DETAIL(d)                                                                                  \
  "CASE WHEN " d " LIKE 'twin of %' OR " d " LIKE 'finalist: timed %' OR " d                                 \
  " LIKE 'compiled on demand%' THEN ''"                                                                      \
  " WHEN " d " LIKE 'finalist: %' THEN substr(" d ", 11) ELSE " d " END"
#define FAT_PROSE_MADE_BY(m)                                                                                 \
  "CASE WHEN " m " LIKE 'model %' THEN " m " WHEN " m                                                        \
  " LIKE 'made for a package, fatune %' THEN 'package ' || substr(" m ", 28)"                                \
  " WHEN " m " LIKE 'on demand, libfatune %' THEN substr(" m ", 12) ELSE '' END"
#define FAT_PROSE_DRIVER(m) "iif((" FAT_PROSE_MADE_BY(m) ") = '', " m ", '')"

#endif
