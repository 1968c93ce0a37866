/* Judges a network on every row of a file, and draws what came of it. */
#ifndef EVALUATE_H
#define EVALUATE_H

#include "engine/engine.h"
#include "cli/options.h"
#include "model/metrics.h"

/* Whether what the options ask for can be drawn of this network's rows. */
bool evaluate_can(const Engine *engine, const Options *options, Error *error);

/* The predictions to the rows of options->test; then the pictures that options->mistakes,
   options->confusion and options->weights name. The engine's dataset is written over. *scores is
   opened here, and to be closed by the caller where this returns true. */
bool judge(Engine *engine, const Options *options, Metrics *scores, Error *error);

#endif
