// Places in a document: the way to a value, as "device.core.memory" or
// "machine[0].links[0].bandwidth". Keys may have dots.
#pragma once

#include <string_view>

#include "base/files/document.h"

namespace tessera {

/// Is there a value at the place?
bool has_place(const Document& document, std::string_view place);

/// Is it the place `around`, or one below it?
bool is_at_or_below(std::string_view place, std::string_view around);

}  // namespace tessera
