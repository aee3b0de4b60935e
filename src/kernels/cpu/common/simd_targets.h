// Which instruction sets the vector loops are compiled for: AVX2 and AVX-512, and Highway's
// portable fallback elsewhere.
//
// Include before any header of Highway. Fewer targets compile faster; machines without AVX2 are too
// slow to train on anyway.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
