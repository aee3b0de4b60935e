#include "task_graph/tasks/pass_kind.h"

#include <cstddef>

namespace tessera {

std::string_view to_text(PassKind kind) {
  constexpr std::string_view names[] = {"F", "B", "W", "BW"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace tessera
