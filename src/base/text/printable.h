// Text that a terminal can show.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// The text for a terminal: control characters other than newline and tab are written as \x1b, so
/// that the contents of a file neither cut a message off nor control the terminal.
std::string printable(std::string_view text);

/// The same for a text in JSON, in which they are written as \u0080.
///   requires  the control characters below U+0020 are escaped already
std::string printable_json(std::string text);

}  // namespace tessera
