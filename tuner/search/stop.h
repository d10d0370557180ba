/* stop.h -- what ends a tune before its time: a signal, or an error of its own. */
#ifndef FAT_STOP_H
#define FAT_STOP_H

#include <signal.h>
#include <stdbool.h>

/* How signals were handled before. */
typedef struct fat_stop {
  struct sigaction before[2];
} fat_stop;

/* From here to the end the first SIGINT or SIGTERM asks to stop, and a second one ends the process at once;
 * the first is answered by a line on stderr, unless `quiet`. Returns a flag that compiles and trials read:
 * not 0 once somebody has asked. One tune at a time. */
const volatile int *fat_stop_begin(fat_stop *stop, bool quiet);
void fat_stop_end(const fat_stop *stop);

void fat_stop_ask(void);   /* as an error does, where nobody has asked yet */
int fat_stop_signal(void); /* the number of the signal that asked, else 0 */

#endif
