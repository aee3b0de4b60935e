#include "tools/cli/internal/option_parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "tools/cli/internal/help_text.h"
#include "tools/cli/internal/option_aliases.h"

namespace tessera {
namespace {

/// The arguments "CONFIG [NAME]" in a message: "one or two arguments, CONFIG and NAME".
std::string count_text(size_t required, size_t all) {
  constexpr const char* kNumberNames[] = {"no", "one", "two", "three"};
  if (all == required) return fmt::format("{} argument{}", kNumberNames[all], all == 1 ? "" : "s");
  if (required == 0)
    return fmt::format("at most {} argument{}", kNumberNames[all], all == 1 ? "" : "s");
  return fmt::format("{} or {} arguments", kNumberNames[required], kNumberNames[all]);
}

/// The most similar option; dashes do not count.
std::string nearest_option(const std::string& word, const std::vector<std::string>& legal) {
  std::vector<std::string> names;
  for (const std::string& option : legal) names.push_back(option.substr(2));
  const std::string close = nearest(word.substr(word.find_first_not_of('-')), names);
  return close.empty() ? "" : "--" + close;
}

/// The last spelling of "-n,--processes".
std::string long_name(const std::string& option) {
  return split_text(option, ',').back();
}

/// "--plan", and not the flags of another program in one word: "--tensor-parallel 8 --bf16".
bool is_option_word(const std::string& word) {
  return word.starts_with("--") && word.find_first_of(" \t\n") == std::string::npos;
}

/// A value that begins with dashes is joined to its option, as CLI11 requires.
std::vector<std::string> joined_flags(const std::vector<std::string>& words) {
  std::vector<std::string> joined;
  for (const std::string& word : words)
    if (word.starts_with("--") && !is_option_word(word) && !joined.empty() &&
        is_option_word(joined.back()) && joined.back().find('=') == std::string::npos)
      joined.back() += "=" + word;
    else
      joined.push_back(word);
  return joined;
}

}  // namespace

struct OptionParser::State {
  State(std::string command_name, const std::string& description, const std::string& example)
      : command(std::move(command_name)), app(description, "tessera " + command) {
    app.footer((example.empty() ? "" : "Example:\n  " + example + "\n\n") +
               "Exit codes: see tessera --help");
  }

  std::string arguments_text() const {
    if (rest) return "its options, --, and a command with its arguments";
    std::vector<std::string> names = required;
    names.insert(names.end(), optional.begin(), optional.end());
    const std::string count = count_text(required.size(), names.size());
    return names.empty() ? count : count + ", " + join(names, " and ");
  }

  std::string command;
  CLI::App app;
  std::vector<std::string> required, optional;  // positional arguments
  std::vector<std::string> assignment_options, flags_with_values;
  std::string rest_name;  // of the words after "--"
  std::vector<std::string>* rest = nullptr;
  std::vector<std::pair<std::string, std::string>> former;  // names of options, and present ones
  std::vector<std::function<void()>> checks;
  std::function<std::vector<std::string>(const std::string&)> commands_with;
};

void refuse_usage(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kUsage);
}

OptionParser::OptionParser(std::string command, const std::string& description,
                           const std::string& example)
    : state_(std::make_unique<State>(std::move(command), description, example)) {}

OptionParser::~OptionParser() = default;

void OptionParser::argument(const std::string& name, const std::string& help, std::string& target) {
  state_->app.add_option(name, target, help)->required();
  state_->required.push_back(name);
}

void OptionParser::optional_argument(const std::string& name, const std::string& help,
                                     std::string& target) {
  state_->app.add_option(name, target, help);
  state_->optional.push_back(name);
}

void OptionParser::arguments(const std::string& name, const std::string& help,
                             std::vector<std::string>& target) {
  state_->app.add_option(name, target, help)->required();
  state_->required.push_back(name);
}

void OptionParser::command_after_dashes(const std::string& name, std::vector<std::string>& target) {
  state_->rest_name = name;
  state_->rest = &target;
}

void OptionParser::flag(const OptionText& option, bool& target) {
  keep_former(option);
  state_->app.add_flag(option.name, target, option.help);
}

void OptionParser::flag_with_value(const OptionText& option, std::optional<std::string>& target) {
  state_->flags_with_values.push_back(option.name);
  state_->app.add_flag(option.name, target, option.help);
  check([&target] {
    if (target == "true") target = "";  // CLI11 returns this for a flag without a value
  });
}

void OptionParser::value(const OptionText& option, std::function<void(const std::string&)> read) {
  state_->app.add_option_function<std::string>(option.name, std::move(read), option.help)
      ->type_name(option.type);
}

void OptionParser::text(const OptionText& option, std::string& target) {
  keep_former(option);
  state_->app.add_option(option.name, target, option.help)->type_name(option.type);
}

void OptionParser::text(const OptionText& option, std::optional<std::string>& target) {
  keep_former(option);
  state_->app.add_option(option.name, target, option.help)->type_name(option.type);
}

void OptionParser::keep_former(const OptionText& option) {
  for (const std::string& name : option.former)
    state_->former.emplace_back(name, long_name(option.name));
}

/// Replaces former names of options by the present ones: "--to a" and "--to=a" by "--out a".
void OptionParser::rename_former(std::vector<std::string>& words) const {
  for (std::string& word : words)
    for (const auto& [former, present] : state_->former)
      if (word == former || word.starts_with(former + "=")) word.replace(0, former.size(), present);
}

void OptionParser::required_text(const OptionText& option, std::string& target) {
  keep_former(option);
  state_->app.add_option(option.name, target, option.help)->type_name(option.type)->required();
}

void OptionParser::texts(const OptionText& option, std::vector<std::string>& target) {
  state_->app.add_option(option.name, target, option.help)
      ->type_name(option.type)
      ->allow_extra_args(false);
}

void OptionParser::assignments(const OptionText& option, std::vector<std::string>& target) {
  texts(option, target);
  state_->assignment_options.push_back(option.name);
}

void OptionParser::real(const OptionText& option, double& target, double min) {
  value(option, [this, name = option.name, &target, min](const std::string& text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), target);
    if (error != std::errc{} || end != text.data() + text.size() || !(target >= min))
      refuse_number(name, text, fmt::format("a number of at least {}", min),
                    fmt::format("{}", std::max(min, 1.0)));
  });
}

void OptionParser::refuse_number(const std::string& option, const std::string& value,
                                 const std::string& legal, const std::string& example) const {
  const std::string name = long_name(option);
  refuse_usage(fmt::format("tessera {}: {} {} is not valid", state_->command, name, value),
               fmt::format("{} must be {}", name, legal),
               fmt::format("write {} {}", name, example));
}

void OptionParser::check(std::function<void()> check) {
  state_->checks.push_back(std::move(check));
}

void OptionParser::tell_commands_with(
    std::function<std::vector<std::string>(const std::string&)> commands) {
  state_->commands_with = std::move(commands);
}

bool OptionParser::has_option(const std::string& option) const {
  return option.starts_with("-") && state_->app.get_option_no_throw(option) != nullptr;
}

bool asks_for_help(const std::vector<std::string>& words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), dashes, "--help") != dashes ||
         std::find(words.begin(), dashes, "-h") != dashes;
}

std::string OptionParser::help(int width) const {
  std::string text = state_->app.help();
  constexpr std::string_view kOptions = "[OPTIONS]";
  if (state_->rest) text.insert(text.find(kOptions) + kOptions.size(), " -- " + state_->rest_name);
  return wrap_help(text, static_cast<int>(state_->app.get_formatter()->get_column_width()), width);
}

/// Moves the words after "--" to the variable that takes them.
void OptionParser::take_command(std::vector<std::string>& words) {
  if (!state_->rest) return;
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes == words.end()) return;
  state_->rest->assign(dashes + 1, words.end());
  words.erase(dashes, words.end());
}

/// Checks that values are given, because CLI11 would take the following option as the value.
void OptionParser::check_values_are_given(const std::vector<std::string>& words) const {
  for (size_t i = 0; i < words.size(); ++i) {
    const CLI::Option* option =
        words[i].starts_with("--") ? state_->app.get_option_no_throw(words[i]) : nullptr;
    if (!option || option->get_items_expected_max() == 0 ||
        (i + 1 < words.size() && !is_option_word(words[i + 1])))
      continue;
    refuse_usage("tessera " + state_->command + ": " + words[i] + " has no value",
                 "the option is the last word, or another option follows it",
                 "write the value after " + words[i]);
  }
}

/// Repeats the option before each further "key=value" after it, as CLI11 requires: "--set a=1 b=2"
/// becomes "--set a=1 --set b=2".
std::vector<std::string> OptionParser::repeat_assignment_options(
    const std::vector<std::string>& words) const {
  const std::vector<std::string>& options = state_->assignment_options;
  std::vector<std::string> repeated;
  std::string open;  // the option that takes the next assignment; "": none
  for (const std::string& word : words) {
    const bool is_option = std::find(options.begin(), options.end(), word) != options.end();
    const bool is_assignment = !word.starts_with("-") && word.find('=') != std::string::npos;
    if (!open.empty() && is_assignment && repeated.back() != open) repeated.push_back(open);
    repeated.push_back(word);
    if (is_option)
      open = word;
    else if (!is_assignment)
      open.clear();
  }
  return repeated;
}

/// Refuses "--resume VALUE", where VALUE became an argument.
void OptionParser::refuse_separate_value(const std::vector<std::string>& words) const {
  for (const std::string& flag : state_->flags_with_values) {
    const auto found = std::find(words.begin(), words.end(), flag);
    if (found == words.end() || found + 1 == words.end() || (found + 1)->starts_with("-")) continue;
    const std::string& value = *(found + 1);
    refuse_usage(
        "tessera " + state_->command + ": " + flag + " " + value + " has a space before the value",
        flag + " may have no value, so its value is written after =, and '" + value +
            "' is read as an argument",
        "write " + flag + "=" + value);
  }
}

void OptionParser::refuse_extra(const std::vector<std::string>& words) const {
  const std::string first = words.empty() ? "" : split_text(words.front(), '=').front();
  const std::string command = "tessera " + state_->command;
  if (!first.starts_with("-") && state_->rest)
    refuse_usage(command + ": '" + first + "' is not after --",
                 "the command takes " + state_->arguments_text(),
                 "write " + command + " [OPTIONS] -- " + first + " ...");
  if (!first.starts_with("-"))
    refuse_usage(command + ": '" + first + "' is one argument too many",
                 "the command takes " + state_->arguments_text(),
                 "remove it, or write the option that it belongs to before it");
  std::vector<std::string> legal;
  for (const CLI::Option* option : state_->app.get_options())
    if (option->nonpositional()) legal.push_back("--" + option->get_lnames().front());
  const std::string alias = option_alias(first, legal);
  const std::string close = alias.empty() ? nearest_option(first, legal) : alias;
  if (const ForeignOption foreign = foreign_option(first); !foreign.option.empty())
    refuse_usage(command + ": unknown option '" + first + "'", std::string(foreign.why),
                 std::string(foreign.fix));
  const std::vector<std::string> others = close.empty() && state_->commands_with
                                              ? state_->commands_with(first)
                                              : std::vector<std::string>();
  if (!others.empty())
    refuse_usage(command + ": unknown option '" + first + "'",
                 "it is an option of tessera " + join(others, ", "),
                 "remove it, or use another command; tessera " + state_->command +
                     " --help lists the options here");
  refuse_usage(command + ": unknown option '" + first + "'",
               "legal options here are " + join(legal, ", "),
               close.empty() ? "remove it or use one of these" : "did you mean '" + close + "'?");
}

void OptionParser::parse(std::vector<std::string> words) {
  take_command(words);
  rename_former(words);
  check_values_are_given(words);
  std::vector<std::string> reversed = repeat_assignment_options(joined_flags(words));
  std::reverse(reversed.begin(), reversed.end());  // the order that CLI11 requires
  try {
    state_->app.parse(reversed);
  } catch (const CLI::ExtrasError&) {
    refuse_separate_value(words);
    refuse_extra(state_->app.remaining());
  } catch (const CLI::ParseError& error) {
    const std::string command = "tessera " + state_->command;
    refuse_usage(
        command + ": " + error.what(),
        "the command takes " + state_->arguments_text() + ", and options with their values",
        "see " + command + " --help");
  }
  for (const auto& check : state_->checks) check();
}

}  // namespace tessera
