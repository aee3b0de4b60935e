// The two kinds of failure.
//
// A UserError tells a person what went wrong, why, and how to fix it. It carries the exit code that
// scripts rely on. An InternalError is a defect of the program. Nothing else is thrown on purpose.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

/// The exit codes of the program. Scripts rely on them.
enum class ExitCode : int {
  kDone = 0,
  kFailure = 1,
  kUsage = 2,
  kNoPlan = 3,
  kOutOfMemory = 4,
  kDiverged = 5,
  kVerificationFailed = 6,
  kBadData = 65,
  kMissingInput = 66,
  kRankLost = 69,
  kInternal = 70,
  kPreempted = 75,
  kBadConfig = 78,
};

/// A mistake that the user can fix. All three parts are required, with full names, numbers and the
/// legal choices.
///
///   what()   the message as it is printed, with control characters of quoted texts escaped:
///
///       matmul 'blocks.3.ffn.up': a f32[8,16] does not fit b f32[4,16]
///         why: matmul takes a [m,k] and b [k,n] with the same k
///         fix: transpose the operand that is stored the other way, or check the layer that
///              produces a
class UserError : public std::runtime_error {
 public:
  UserError(std::string what, std::string why, std::string fix, ExitCode code = ExitCode::kFailure);

  const std::string& what_happened() const { return what_; }
  const std::string& why() const { return why_; }
  const std::string& fix() const { return fix_; }
  ExitCode exit_code() const { return code_; }

 private:
  std::string what_, why_, fix_;
  ExitCode code_;
};

/// Throws a UserError of a plan, a cluster or another description that is not legal (78).
[[noreturn]] void refuse_config(std::string what, std::string why, std::string fix);
/// Throws a UserError of data or of a program that is not legal (65).
[[noreturn]] void refuse_data(std::string what, std::string why, std::string fix);

/// A defect of the program itself.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message)
      : std::logic_error("internal error: " + message) {}
};

/// Throws InternalError with `message` unless `condition` is true. It is for contracts between
/// modules, never for user input.
inline void ensure(bool condition, std::string_view message) {
  if (!condition) throw InternalError(std::string(message));
}
/// The same with a message that is composed only when it is needed: message() returns a string.
template <std::invocable Message>
void ensure(bool condition, const Message& message) {
  if (!condition) throw InternalError(message());
}

/// The choice that `word` is likely meant to be: the one with the smallest edit distance, when that
/// is at most a third of the letters of `word`, rounded up; else the only one that begins with it.
/// "" for none.
template <typename Choices>
std::string nearest(std::string_view word, const Choices& choices);

/// The edit distance of Levenshtein, regardless of case: insert, delete and replace cost 1.
int edit_distance(std::string_view a, std::string_view b);

template <typename Choices>
std::string nearest(std::string_view word, const Choices& choices) {
  std::string best, longer;
  int64_t best_distance = (std::ssize(word) + 2) / 3 + 1;
  int beginnings = 0;
  for (const auto& choice : choices) {
    const std::string text(choice);
    const int distance = edit_distance(word, text);
    if (distance < best_distance) {
      best_distance = distance;
      best = text;
    }
    if (word.size() > 1 && text.starts_with(word)) {
      ++beginnings;
      longer = text;
    }
  }
  return best.empty() && beginnings == 1 ? longer : best;
}

}  // namespace tessera
