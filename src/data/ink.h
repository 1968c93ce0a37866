/* Ink in a picture: how far each pixel stands out from the ground around it, whatever the light,
   the paper's rules and the desk beside it. */
#pragma once

#include "data/grid.h"
#include "data/image.h"

typedef struct {
  int width, height;
  uint8_t *contrast; /* (height, width): 0 where nothing stands out, lines and edges removed */
  int noise;         /* contrast that is not told from the ground */
  int scale;         /* pixels: no pen's stroke is wider, shades that are wider are ground */
} Ink;

/* Finds dark ink on light ground or light ink on dark ground. Returns false without memory, or if
   nothing stands out: then *none is set. The caller frees what ink_free takes. */
bool ink_find(const Image *image, Ink *ink, bool *none);
void ink_free(Ink *ink); /* one of zeros is allowed */
