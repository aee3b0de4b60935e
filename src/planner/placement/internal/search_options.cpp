#include "planner/placement/internal/search_options.h"

namespace tessera {
namespace {

/// Of what is hidden: of two choices that hide all, the one that sends less is better.
constexpr double kMinExposed = 0.05;

}  // namespace

Seconds exchange_time(const SearchProblemOptions& options, const Price& price, bool is_deferred) {
  const double exposed = std::max(1 - options.overlap, kMinExposed);
  return is_deferred && options.combines ? Seconds(exposed * price.floor.value()) : price.estimate;
}

}  // namespace tessera
