/* terminal.h -- how wide the terminal is. */
#ifndef FAT_TERMINAL_H
#define FAT_TERMINAL_H

/* Columns of the terminal behind a file descriptor; 0 where it is none. */
int fat_terminal_width(int fd);

#endif
