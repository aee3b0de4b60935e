#include "simulator/step/internal/exchange_names.h"

#include <set>

#include "base/text/text.h"
#include "sharding/reshard/exchange.h"

namespace tessera {

std::string axes_of(const Task& task) {
  std::set<std::string> names;
  for (const ExchangePart& part : task.parts)
    for (std::string& name : changed_axes(part.exchange)) names.insert(std::move(name));
  return join({names.begin(), names.end()}, ",");
}

std::string exchange_name(const Task& task) {
  const std::string kind(to_text(task.parts.front().exchange.kind)), axes = axes_of(task);
  return axes.empty() ? kind + " between meshes" : kind + " over " + axes;
}

}  // namespace tessera
