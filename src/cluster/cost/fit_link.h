// The latency and the bandwidth of links from measured times.
#pragma once

#include <span>

#include "cluster/cost/links.h"

namespace tessera {

/// A measured time of a message, or of a collective of this size.
struct MeasuredTime {
  Bytes bytes{0};
  Seconds time{0};
};

/// The line latency + bytes / rate that is nearest to the times: the sum of squares of the relative
/// errors is least, so that small messages count as much as large ones. The latency is at least 0.
///
///   requires  a time above 0, and one of another size where the latency is asked for: of times of
///             one size the latency is 0
///   throws    InternalError without times, or where larger messages take less time
LinkCost fit_link(std::span<const MeasuredTime> times);

/// The mean of |predicted / measured - 1|.
double mean_relative_error(const LinkCost& link, std::span<const MeasuredTime> times);

}  // namespace tessera
