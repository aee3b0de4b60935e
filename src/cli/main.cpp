// The program. Everything that is thrown ends here, as a message and an exit code.
#include <algorithm>
#include <iostream>
#include <new>
#include <optional>

#include "base/document.h"
#include "cli/commands.h"

namespace tessera {
namespace {

ExitCode run_in_one_process(const Arguments& arguments) {
  switch (arguments.command) {
    case Command::kTrain:
    case Command::kEval:
    case Command::kGenerate: break;
    case Command::kVerify: return run_verify(arguments);
    case Command::kExplain: return run_explain(arguments);
    case Command::kInspect: return run_inspect(arguments);
    case Command::kFuzz: return run_fuzz(arguments);
    case Command::kSolve: return run_solve(arguments);
    case Command::kLaunch: return run_launch(arguments);
    case Command::kDemo: return run_demo(arguments);
  }
  throw InternalError("unknown command");
}

ExitCode run(const Arguments& arguments, const std::string& command, Processes& processes) {
  if (arguments.command == Command::kTrain) return run_train(arguments, processes);
  if (arguments.command == Command::kEval) return run_eval(arguments, processes);
  if (arguments.command == Command::kGenerate) return run_generate(arguments, processes);
  processes.refuse(command);
  return run_in_one_process(arguments);
}

ExitCode run(const std::vector<std::string>& words, Processes& processes) {
  const CommandLine line = parse_command_line(words);
  if (const auto* arguments = std::get_if<Arguments>(&line))
    return run(*arguments, words.front(), processes);
  std::cout << std::get<std::string>(line);
  return ExitCode::kDone;
}

/// Tells people on standard error and, when they asked for JSON, scripts on standard output.
int report(const UserError& error, bool json) {
  const int code = static_cast<int>(error.exit_code());
  std::cerr << error.what() << std::endl;
  if (!json) return code;
  Document document;
  document["error"]["what"] = error.what_happened();
  document["error"]["why"] = error.why();
  document["error"]["fix"] = error.fix();
  document["exit_code"] = code;
  std::cout << to_json(document, 2) << std::endl;
  return code;
}

/// What was thrown, as people are told of it.
UserError as_user_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UserError& error) {
    return error;
  } catch (const InternalError& error) {
    return {error.what(), "a promise inside tessera does not hold",
            "please report it, with the command and its files", ExitCode::kInternal};
  } catch (const std::bad_alloc&) {
    return {"there is not enough memory", "an allocation failed",
            "train a smaller model or batch, or divide it over more machines",
            ExitCode::kOutOfMemory};
  } catch (const std::exception& error) {
    return {std::string("the program failed: ") + error.what(), "a library reported it",
            "check the files that the command names, and the disk", ExitCode::kFailure};
  }
}

/// Of several processes one reports and ends all.
int end_after(const std::exception_ptr& thrown, bool json, Processes& processes) {
  const UserError error = as_user_error(thrown);
  processes.tell(std::make_exception_ptr(error));
  const int code = processes.speaks() ? report(error, json) : static_cast<int>(error.exit_code());
  if (processes.are_connected()) processes.end_all(code);
  return code;
}

int guarded_run(const std::vector<std::string>& words) {
  // The command line may be what is wrong: whether JSON is wanted is looked up in its words.
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  std::optional<Processes> processes;
  try {
    processes.emplace();
    return static_cast<int>(run(words, *processes));
  } catch (...) {
    if (!processes) return report(as_user_error(std::current_exception()), json);
    return end_after(std::current_exception(), json, *processes);
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::guarded_run({argv + 1, argv + argc});
}
