// The options and arguments of one command: their help, and the variables that take their values.
#pragma once

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Refuses a wrong command line.  throws  UserError (2)
[[noreturn]] void refuse_usage(const std::string& what, const std::string& why,
                               const std::string& fix);

/// One option in the help.
struct OptionText {
  std::string name;  // "--plan", or "-n,--processes" for two spellings of one option
  std::string type;  // "FILE"; "" for a flag
  std::string help;
  /// Former names, which still work and are not in the help: "--to".
  std::vector<std::string> former = {};
};

/// Reads the words of one command line into variables. The variables must outlive the parser.
///
///     OptionParser parser("train", "Train a model");
///     parser.argument("CONFIG", "The configuration", config);
///     parser.number({"--ranks", "N", "Number of ranks"}, ranks, 1);
///     parser.parse({"gpt.toml", "--ranks", "4"});
class OptionParser {
 public:
  ///   example  a command line that the help shows; "" for none
  OptionParser(std::string command, const std::string& description,
               const std::string& example = {});
  ~OptionParser();
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;

  /// Adds a positional argument; the second form may be left out.
  void argument(const std::string& name, const std::string& help, std::string& target);
  void optional_argument(const std::string& name, const std::string& help, std::string& target);
  /// One or more words.
  void arguments(const std::string& name, const std::string& help,
                 std::vector<std::string>& target);
  /// All words after "--". The usage line of the help shows them as "-- NAME".
  void command_after_dashes(const std::string& name, std::vector<std::string>& target);

  void flag(const OptionText& option, bool& target);
  /// A flag that may have a value, written --resume=VALUE; the value is "" without one.
  void flag_with_value(const OptionText& option, std::optional<std::string>& target);
  void text(const OptionText& option, std::string& target);
  void text(const OptionText& option, std::optional<std::string>& target);
  void required_text(const OptionText& option, std::string& target);
  /// An option that may be repeated; each time it adds a value.
  void texts(const OptionText& option, std::vector<std::string>& target);
  /// An option that may be repeated and that accepts several "key=value" words at a time.
  void assignments(const OptionText& option, std::vector<std::string>& target);
  /// A whole number of at least `min`. `target` is a number or a std::optional of one.
  template <typename Target, typename Number>
  void number(const OptionText& option, Target& target, Number min);
  /// A number of at least `min`.
  void real(const OptionText& option, double& target, double min);

  /// Calls `check` after parsing. It throws through refuse_usage.
  void check(std::function<void()> check);

  /// Messages about an unknown option name the commands that have it.
  void tell_commands_with(std::function<std::vector<std::string>(const std::string&)> commands);
  bool has_option(const std::string& option) const;

  ///   throws  UserError (2) for an unknown option (with the most similar legal one), or a missing
  ///           or malformed argument
  void parse(std::vector<std::string> words);
  /// The text that `--help` prints, in lines of at most `width` columns.
  std::string help(int width) const;

 private:
  struct State;

  /// Calls `read` with the value of the option.
  void value(const OptionText& option, std::function<void(const std::string&)> read);
  [[noreturn]] void refuse_number(const std::string& option, const std::string& value,
                                  const std::string& legal, const std::string& example) const;
  /// Keeps the former names of an option.
  void keep_former(const OptionText& option);
  void rename_former(std::vector<std::string>& words) const;
  void take_command(std::vector<std::string>& words);
  void check_values_are_given(const std::vector<std::string>& words) const;
  std::vector<std::string> repeat_assignment_options(const std::vector<std::string>& words) const;
  void refuse_separate_value(const std::vector<std::string>& words) const;
  [[noreturn]] void refuse_extra(const std::vector<std::string>& words) const;

  std::unique_ptr<State> state_;
};

/// Do `words` ask for the help? Words after "--" belong to another command.
bool asks_for_help(const std::vector<std::string>& words);

template <typename Target, typename Number>
void OptionParser::number(const OptionText& option, Target& target, Number min) {
  keep_former(option);
  value(option, [this, name = option.name, &target, min](const std::string& text) {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < min)
      refuse_number(name, text, "a whole number of at least " + std::to_string(min),
                    std::to_string(std::max<Number>(min, 1)));
    target = number;
  });
}

}  // namespace tessera
