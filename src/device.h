/* The device that --device asks for. */
#ifndef DEVICE_H
#define DEVICE_H

#include "engine.h"

typedef struct {
  int choice;   /* DEVICE_... of options.h */
  Error reason; /* why `auto` took the CPU, "" if it did not */
} Device;

/* A TrainerOpenEngine; context: the Device. */
Engine *device_open(void *context, const EngineConfig *config, Error *error);

#endif
