// The times of exchanges between ranks that are threads of this machine.
#pragma once

#include <vector>

#include "cluster/cost/fit_link.h"

namespace tessera {

/// The time of an exchange in which each of two ranks receives n bytes of the other one, for
/// several sizes: of steps in which two ranks gather and divide a tensor several times, less the
/// time of the kernels between.
///
///   memory  a few times the largest message, 4 MiB
std::vector<MeasuredTime> measure_exchanges();

/// What a kernel takes in a program beside its run alone: the difference of programs of many and of
/// few kernels, by kernel.
Seconds dispatch_time();

}  // namespace tessera
