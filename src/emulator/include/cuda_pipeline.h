/* Asynchronous copies of 16 bytes. */
#pragma once
#define __pipeline_memcpy_async(to, from, bytes) emulator_copy(to, from, bytes, bytes)
#define __pipeline_commit() emulator_close_copies()
#define __pipeline_wait_prior(groups) emulator_await_copies(groups)
