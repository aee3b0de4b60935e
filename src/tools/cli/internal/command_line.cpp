#include "tools/cli/internal/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/plan/plan.h"
#include "tools/cli/internal/help_text.h"

namespace tessera {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "   0  done                        65  bad model or data\n"
    "   1  any other failure           66  missing input\n"
    "   2  usage                       69  a rank was lost: killed, stopped, cut off\n"
    "   3  no feasible plan            70  internal error: a fault of this program\n"
    "   4  out of memory               75  preempted, a checkpoint was written\n"
    "   5  diverged: not a number      78  bad configuration or plan\n"
    "   6  verification failed\n";

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands()) names.emplace_back(entry.name);
  return names;
}

std::string general_help() {
  std::string text =
      "tessera: trains one serial model on many ranks, with the results of the serial program\n\n"
      "Usage: tessera COMMAND ...\n\nCommands:\n";
  for (const CommandEntry& entry : commands())
    text += fmt::format("  {:<10}{}\n", entry.name, entry.help);
  return text +
         "\ntessera help COMMAND lists the options of a command; tessera --version prints the "
         "version.\n\n" +
         kExitCodes;
}

const CommandEntry& find_command(const std::string& name) {
  for (const CommandEntry& entry : commands())
    if (name == entry.name) return entry;
  const std::string close = nearest(name, command_names());
  refuse_usage("tessera has no command '" + name + "'",
               "the commands are " + join(command_names(), ", "),
               close.empty() ? "use one of these; tessera help says what each does"
                             : "did you mean 'tessera " + close + "'?");
}

/// The commands that have an option.
std::vector<std::string> commands_with(const std::string& option) {
  std::vector<std::string> names;
  for (const CommandEntry& entry : commands()) {
    OptionParser parser(entry.name, entry.help);
    const auto command = entry.make();
    command->describe(parser);
    if (parser.has_option(option)) names.emplace_back(entry.name);
  }
  return names;
}

CommandLine parse_command(const CommandEntry& entry, std::vector<std::string> words) {
  ParsedCommand parsed{&entry, entry.make()};
  OptionParser parser(entry.name, entry.help, entry.example);
  parsed.command->describe(parser);
  if (asks_for_help(words)) return parser.help(help_width());
  parsed.command->words = words;
  parser.tell_commands_with(commands_with);
  parser.parse(std::move(words));
  return parsed;
}

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help";
}

}  // namespace

CommandLine parse_command_line(std::vector<std::string> words) {
  // `tessera --json train ...` is the same as `tessera train ... --json`.
  if (!words.empty() && words[0] == "--json")
    std::rotate(words.begin(), words.begin() + 1, words.end());
  if (words.empty() || words[0] == "--json")
    refuse_usage("tessera was given no command", "the commands are " + join(command_names(), ", "),
                 "start with tessera demo; tessera help says what each does");
  if (words[0] == "--version") return "tessera " + std::string(version()) + "\n";
  if (is_help(words[0])) {
    if (words.size() == 1) return general_help();
    return parse_command(find_command(words[1]), {"--help"});
  }
  return parse_command(find_command(words[0]), {words.begin() + 1, words.end()});
}

}  // namespace tessera
