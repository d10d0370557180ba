/* bound.c -- keeps the largest of what is noted. */
#include "bound.h"

#include <math.h>

void fat_bound_note(fat_bound *bound, int tensor, double right, double own, double mass)
{
  bound->of[tensor].off = fmax(bound->of[tensor].off, fabs(own - right));
  bound->of[tensor].most = fmax(bound->of[tensor].most, fabs(right));
  bound->of[tensor].mass = fmax(bound->of[tensor].mass, mass);
}
