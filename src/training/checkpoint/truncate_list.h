// Shortens lists in messages.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// The first `count` of the texts, and "and N more" when there are more than one after them.
///   example  truncate_list({"a", "b", "c", "d"}, 2) = {"a", "b", "and 2 more"}
std::vector<std::string> truncate_list(std::vector<std::string> texts, size_t count);

}  // namespace tessera
