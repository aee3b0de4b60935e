// The instruction sets for which the vector loops are compiled: AVX2 and AVX-512, and Highway's
// portable fallback elsewhere.
//
// Include it before any header of Highway. Fewer targets compile faster; machines without AVX2 are
// too slow for training anyway.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
