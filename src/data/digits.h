/* Draws digits that look handwritten, for training where MNIST is not available.

   Each digit has several skeletons of pen strokes. A stroke is a curve through a few points. For
   each drawing, the points move at random, the digit is bent, stretched, slanted and turned, and
   a pen is chosen. Then the digit is sized and centred as MNIST's digits are (LeCun, Cortes,
   Burges, 1998): its ink fits a box of 20 x 20, and its centre of mass is the middle of 28 x 28.

   Every machine draws the same digits, because only + - * / sqrt are used, without fused
   multiply-add. IEEE 754 defines how these operations round. */
#pragma once

#include <stdint.h>

enum { DIGITS_SIDE = 28, DIGITS_PIXELS = DIGITS_SIDE * DIGITS_SIDE, DIGITS_BOX = 20 };

/* Each seed gives two endless series of digits, which share no random number. */
typedef enum { DIGITS_TRAIN, DIGITS_TEST } DigitsSeries;

/* Draws digit `row` of a series into pixels (28, 28): 0 is paper, 255 is ink. Returns its label;
   labels 0 to 9 are equally likely. The result depends on the arguments alone. */
int digits_draw(uint64_t seed, DigitsSeries series, uint64_t row, uint8_t pixels[DIGITS_PIXELS]);
