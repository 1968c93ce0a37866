/* The orientation of a JPEG, which a camera notes in its Exif segment. */
#ifndef EXIF_H
#define EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The orientation of a JPEG of `length` bytes, 1 to 8; 1, as it stands, if it has none or is no
   JPEG. The first row of the stored picture is at the top for 1 and 2, at the bottom for 3 and 4,
   at the left for 5 and 8, at the right for 6 and 7 (CIPA DC-008, "Exchangeable image file format
   for digital still cameras: Exif Version 2.3", 2010, section 4.6.4; the structure is that of TIFF
   6.0, 1992). Reads no byte outside, in time proportional to `length` at most. */
int exif_orientation(const uint8_t *bytes, size_t length);

#endif
