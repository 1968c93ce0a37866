/* Chrome's Trace Event Format, as far as a trace of ours must keep to it. For tests only: what goes
   wrong here fails the running cmocka test. */
#pragma once

/* The file is JSON; its events have the keys and types of their phase; names of processes and
   tracks come first and every slice's track has one; times are sorted and not negative; the slices
   of a track do not overlap; arrows have two ends, in order, each in a slice. Returns the slices;
   *arrows is how many there are. Every nth end of an arrow is looked up: each takes a search
   through all events. */
int assert_format(const char *path, int nth, int *arrows);
