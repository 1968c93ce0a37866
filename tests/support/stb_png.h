/* stb's reader of PNG files, whole. What gcc 14 says of it once it is inlined is not ours. */
#pragma once

#pragma GCC diagnostic push
#ifndef __clang__ /* knows no such warning */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb/stb_image.h>
#pragma GCC diagnostic pop
