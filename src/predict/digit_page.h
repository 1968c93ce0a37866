/* A network as one web page, for a browser without a server or a network: it answers what is drawn
   on it. The page is digit_page.html, which the Makefile makes a part of the program. */
#pragma once

#include "engine/engine.h"
#include "plot/figures.h"

/* What a browser's longest text holds of float32, as base64: V8's is 2^29 - 24 characters. */
enum { DIGIT_PAGE_MOST = 100000000 };

/* Writes the page of a network whose inputs are a square. parameters: (network.floats); float32,
   because float16 is off by up to 8e-4 in MNIST's probabilities. metrics: of the rows that the
   mistakes (count), drawn as 0 to 255, are from; of none if there were no rows. */
bool digit_page_write(const EngineConfig *config, const float *parameters, const Metrics *metrics,
                      const Mistake *mistakes, int count, const char *path, Error *error);
