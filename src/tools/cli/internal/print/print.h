// Everything that the commands print goes through here.
//
// Names and paths come from files, and a terminal obeys the control characters in them: they are
// escaped.
#pragma once

#include <string_view>

namespace tessera {

/// Writes a text for readers on standard output; JSON passes through unchanged.
void print(std::string_view text);

/// Writes a text for readers on standard error.
void tell(std::string_view text);

/// Writes bytes on standard output as they are: those that a model made, or a process that escaped
/// them already. They are escaped when standard output is a terminal.
void print_bytes(std::string_view bytes);

}  // namespace tessera
