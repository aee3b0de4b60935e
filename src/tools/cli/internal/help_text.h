// The lines of help texts.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// The columns of a help text: COLUMNS when it is a number, else those of the terminal on standard
/// output, else 80; 60 to 120.
int help_width();

/// Breaks the lines of `text` that are longer than `width` at spaces. Text in the second column, at
/// `column`, stays there; lines of examples, which begin with "  tessera ", stay whole.
std::string wrap_help(std::string_view text, int column, int width);

}  // namespace tessera
