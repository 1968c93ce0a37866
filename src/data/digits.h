/* Draws digits that look handwritten, for training where MNIST is not available.

   A digit is a skeleton of pen strokes. Each stroke is a curve through a few points, and each digit
   has several ways of writing it. Every drawing moves the points, bends, stretches, slants and
   turns the whole, and takes another pen. Then it is sized and centred as MNIST is (LeCun, Cortes,
   Burges, 1998): the ink fits a box of 20 x 20, and its centre of mass is the middle of 28 x 28.

   Only operations that IEEE 754 rounds one way (+ - * / sqrt) are used, without fused multiply-add,
   so every machine draws the same digits. */
#pragma once

#include <stdint.h>

enum { DIGITS_SIDE = 28, DIGITS_PIXELS = DIGITS_SIDE * DIGITS_SIDE, DIGITS_BOX = 20 };

/* Two endless series with one seed. They share no random number. */
typedef enum { DIGITS_TRAIN, DIGITS_TEST } DigitsSeries;

/* Draws digit `row` of a series into pixels (28, 28): 0 is paper, 255 is ink. Returns its label;
   labels 0 to 9 are equally likely. The result depends on the arguments alone. */
int digits_draw(uint64_t seed, DigitsSeries series, uint64_t row, uint8_t pixels[DIGITS_PIXELS]);
