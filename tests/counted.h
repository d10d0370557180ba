/* counted.h -- included first by every test where lines are counted: a forked child that leaves by _exit
 * writes down what it ran, as exit would. */
#ifndef FAT_TESTS_COUNTED_H
#define FAT_TESTS_COUNTED_H

#include <unistd.h>

void __gcov_dump(void);

static inline _Noreturn void counted_exit(int code)
{
  __gcov_dump();
  _exit(code);
}
#define _exit counted_exit

#endif
