#include "planner/placement/internal/search_options.h"

#include "planner/placement/search_policy.h"

namespace tessera {
namespace {}  // namespace

Seconds exchange_time(const SearchProblemOptions& options, const Price& price, bool is_deferred) {
  const double exposed = std::max(1 - options.overlap, kSearchPolicy.exposed_of_hidden);
  return is_deferred && options.combines ? Seconds(exposed * price.floor.value()) : price.estimate;
}

}  // namespace tessera
