/* Several trained networks that predict together: their probabilities are averaged (a committee, or
   ensemble: Ciresan, Meier, Gambardella, Schmidhuber 2011). */
#pragma once

#include "engine/engine.h"

/* Opens an engine that predicts with `count` members, from 1, which have the same inputs, classes,
   batch and staging rows. Its logits are the logarithms of the mean probabilities. Where a member's
   logits are not finite, so are they, and then `read` gives that member's parameters, else those of
   the first one. config is the first member's. It has only the calls staging, upload, predict, read
   and close; the others are NULL. Owns the members from now on, also where it fails: NULL. */
Engine *committee_open(Engine *const *members, int count, Error *error);
