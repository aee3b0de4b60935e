// The program. Everything that is thrown ends here, as a message and an exit code.
#include <algorithm>
#include <iostream>
#include <new>

#include "base/document.h"
#include "cli/commands.h"

namespace tessera {
namespace {

ExitCode run(const Arguments& arguments) {
  switch (arguments.command) {
    case Command::kTrain: return run_train(arguments);
    case Command::kVerify: return run_verify(arguments);
    case Command::kExplain: return run_explain(arguments);
    case Command::kEval: return run_eval(arguments);
    case Command::kGenerate: return run_generate(arguments);
    case Command::kInspect: return run_inspect(arguments);
    case Command::kFuzz: return run_fuzz(arguments);
    case Command::kSolve: return run_solve(arguments);
    case Command::kDemo: return run_demo(arguments);
  }
  throw InternalError("unknown command");
}

ExitCode run(const std::vector<std::string>& words) {
  const CommandLine line = parse_command_line(words);
  if (const auto* arguments = std::get_if<Arguments>(&line)) return run(*arguments);
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

int guarded_run(const std::vector<std::string>& words) {
  // The command line may be what is wrong: whether JSON is wanted is looked up in its words.
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  try {
    return static_cast<int>(run(words));
  } catch (const UserError& error) {
    return report(error, json);
  } catch (const InternalError& error) {
    return report(UserError(error.what(), "a promise inside tessera does not hold", "please report it, with the command and its files",
                            ExitCode::kInternal),
                  json);
  } catch (const std::bad_alloc&) {
    return report(UserError("there is not enough memory", "an allocation failed",
                            "train a smaller model or batch, or divide it over more machines", ExitCode::kOutOfMemory),
                  json);
  } catch (const std::exception& error) {
    return report(UserError(std::string("the program failed: ") + error.what(), "a library reported it",
                            "check the files that the command names, and the disk", ExitCode::kFailure),
                  json);
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::guarded_run({argv + 1, argv + argc});
}
