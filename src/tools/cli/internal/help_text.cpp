#include "tools/cli/internal/help_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/text/text.h"

namespace tessera {
namespace {

constexpr int kDefaultWidth = 80, kMinWidth = 60, kMaxWidth = 120;

int terminal_width() {
  if (const char* const columns = std::getenv("COLUMNS")) {
    int width = 0;
    const char* const end = columns + std::strlen(columns);
    if (const auto read = std::from_chars(columns, end, width);
        read.ec == std::errc() && read.ptr == end && width > 0)
      return width;
  }
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return kDefaultWidth;
}

/// `line` in several lines, of which all but the first begin with `indent` spaces. Its first
/// `indent` columns stay as they are.
std::string wrapped(std::string_view line, size_t indent, size_t width) {
  std::string text(line.substr(0, indent));
  size_t column = text.size();
  bool is_first = true;  // of its line
  for (const std::string& word : split_text(line.substr(text.size()), ' ')) {
    if (!is_first && column + 1 + word.size() > width) {
      text += "\n" + std::string(indent, ' ');
      column = indent;
      is_first = true;
    }
    text += (is_first ? "" : " ") + word;
    column += (is_first ? 0 : 1) + word.size();
    is_first = false;
  }
  return text;
}

}  // namespace

int help_width() {
  return std::clamp(terminal_width(), kMinWidth, kMaxWidth);
}

std::string wrap_help(std::string_view text, int column, int width) {
  const auto indent = static_cast<size_t>(column);
  std::vector<std::string> lines;
  for (const std::string& line : split_text(text, '\n')) {
    const bool has_columns = line.size() > indent && line.starts_with("  ") &&
                             line[indent - 1] == ' ' && line[indent] != ' ';
    const bool is_one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
    const bool is_whole =
        std::ssize(line) <= width || line.starts_with("  tessera ") || is_one_word;
    lines.push_back(is_whole ? line : wrapped(line, has_columns ? indent : 0, width));
  }
  return join(lines, "\n");
}

}  // namespace tessera
