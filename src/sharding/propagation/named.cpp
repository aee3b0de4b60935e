#include "sharding/propagation/named.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/name_pattern.h"
#include "sharding/propagation/module_marks.h"

namespace tessera {
namespace {

/// The indices of those of `things` whose names match.
///   find  of a name: its index, or nullopt
template <class Id, class Thing, class Find>
std::vector<Id> matching(const std::vector<Thing>& things, const std::string& pattern,
                         const Find& find) {
  const NamePattern compared(pattern);
  std::vector<Id> found;
  if (const std::optional<std::vector<std::string>> names = compared.names()) {
    for (const std::string& name : *names)
      if (const std::optional<Id> id = find(name)) found.push_back(*id);
    std::ranges::sort(found, {}, &Id::index);
    return found;
  }
  for (int i = 0; i < std::ssize(things); ++i)
    if (compared.matches(things[i].name)) found.push_back({i});
  return found;
}

}  // namespace

bool is_one_name(const std::string& pattern) {
  return pattern.find_first_of("*{") == std::string::npos;
}

std::vector<ValueId> values_named(const Graph& graph, const std::string& pattern) {
  return matching<ValueId>(graph.values(), pattern,
                           [&](const std::string& name) { return graph.find_value(name); });
}

std::vector<OpId> ops_named(const Graph& graph, const std::string& pattern) {
  return matching<OpId>(graph.ops(), pattern,
                        [&](const std::string& name) { return graph.find_op(name); });
}

std::vector<OpId> ops_named_by(const Graph& graph, const Mark& mark) {
  switch (mark.kind) {
    case Mark::Kind::kTensor: return {};
    case Mark::Kind::kOp: return ops_named(graph, mark.pattern);
    case Mark::Kind::kModule: return ops_in_modules(graph, mark.pattern);
  }
  throw InternalError("unknown kind of mark");
}

}  // namespace tessera
