/* The answers of a trained network to the digits in pictures. */
#pragma once

#include "engine/engine.h"
#include "model/class_names.h"

/* Told of a picture that has no answer, while others follow. */
typedef void PictureFailed(void *context, const Error *error);

typedef struct {
  char *const *paths; /* (count) */
  int count;
  double confidence; /* an answer with a smaller probability is unsure */
  bool json;         /* a line of JSON for each picture, instead of text */
  const char *show;  /* a PNG of the first picture with an answer beside what the network saw; "":
                        none */
  const char *names; /* of the classes */
  FILE *file;        /* to write to */
  PictureFailed *failed;
  void *context;
} Pictures;

/* Writes a line for each digit of each picture (see photograph.h): the picture's name, the digit's
   box if there are several, then the likeliest class with its probability, and "unsure"
   where the first is less likely than `confidence`; then, if there are several digits, a line for
   each row of them as text. A picture that cannot be answered stops no other: then this returns
   false in the end, the last such picture's error in *error and those before it given to `failed`.
   What is not a picture's fault ends all. */
bool predict_pictures(Engine *engine, const Pictures *pictures, Error *error);
