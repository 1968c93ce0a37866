/* Pictures of digits as a telephone takes them: a page, its light, what is printed on it, and the
   desk beside it. For tests only. Each is a function of its arguments, the same on every machine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum {
  GROUND_PLAIN,
  GROUND_FALLOFF, /* the light falls by 30 to 65% to one side or the corners */
  GROUND_SHADOW,  /* with a soft edge across the digits */
  GROUND_LINED,   /* ruled paper, not quite straight */
  GROUND_SQUARED, /* squared paper */
  GROUND_DESK,    /* dark or light, at one side of the page */
  GROUND_BOARD,   /* chalk on a blackboard, unevenly lit */
  GROUNDS
} Ground;

extern const char *const ground_names[GROUNDS];

enum { PHOTOGRAPH_WIDTH = 640, PHOTOGRAPH_HEIGHT = 480, PHOTOGRAPH_DIGITS = 8 };

typedef struct {
  Ground ground;
  uint64_t number;              /* of the picture, which decides light, pen, places and noise */
  const uint8_t *const *digits; /* rows of (28, 28) */
  int count;                    /* 1 to PHOTOGRAPH_DIGITS, side by side in up to two lines */
  bool pairs;                   /* each second digit touches the one before it */
  float tilt;                   /* of the page, in degrees clockwise */
} Page;

/* Draws a page into `level` (PHOTOGRAPH_HEIGHT, PHOTOGRAPH_WIDTH). */
void photograph_draw(const Page *page, uint8_t *level);
