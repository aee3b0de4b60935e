// The program. Every exception ends here, as a message and an exit code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <system_error>

#include "base/files/document.h"
#include "base/machine_memory.h"
#include "tools/cli/internal/command_line.h"
#include "tools/cli/internal/standard_streams.h"

namespace tessera {
namespace {

ExitCode run(const std::vector<std::string>& words, Processes& processes) {
  const CommandLine line = parse_command_line(words);
  if (const auto* text = std::get_if<std::string>(&line)) {
    std::cout << *text;
    return ExitCode::kDone;
  }
  const auto& [entry, command] = std::get<ParsedCommand>(line);
  if (!entry->in_several_processes) processes.refuse(entry->name);
  return command->run(processes);
}

/// Reports to readers on standard error and, when they asked for JSON, to scripts on standard
/// output.
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

UserError library_error(const std::exception& error) {
  return {std::string("the program failed: ") + error.what(), "a library reported it",
          "check the files that the command names, and the disk", ExitCode::kFailure};
}

/// The exception in the form in which it is reported.
UserError as_user_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UserError& error) {
    return error;
  } catch (const InternalError& error) {
    return {error.what(), "a promise inside tessera does not hold",
            "please report it, with the command and its files", ExitCode::kInternal};
  } catch (const std::bad_alloc&) {
    return out_of_memory_error();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return library_error(error);
    return {"a thread cannot be started",
            std::string("the system allows no more processes, threads or memory: ") + error.what(),
            "raise the limits that ulimit -u and ulimit -v show, or use a plan of fewer ranks"};
  } catch (const std::exception& error) {
    return library_error(error);
  }
}

/// The leader reports the error and ends all processes.
int end_after(const std::exception_ptr& thrown, bool json, Processes& processes) {
  const UserError error = as_user_error(thrown);
  processes.report_failure(std::make_exception_ptr(error));
  const int code =
      processes.is_leader() ? report(error, json) : static_cast<int>(error.exit_code());
  if (processes.are_connected()) processes.end_all(code);
  return code;
}

/// What no thread has caught. A thread of its own may be the first to find no memory.
[[noreturn]] void end_uncaught() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    std::fputs("there is not enough memory\n  why: an allocation failed\n  fix: ", stderr);
    std::fputs(kMemoryFix, stderr);  // without a text that would have to be allocated
    std::fputs("\n", stderr);
    std::_Exit(static_cast<int>(ExitCode::kOutOfMemory));
  } catch (...) {
    std::fputs("an exception was not caught\n", stderr);
  }
  std::abort();
}

int guarded_run(const std::vector<std::string>& words) {
  // The command line itself may be wrong, so the option for JSON is searched in its words.
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  std::optional<Processes> processes;
  try {
    processes.emplace();
    const ExitCode code = run(words, *processes);
    if (processes->is_leader()) check_standard_output();
    return static_cast<int>(code);
  } catch (...) {
    if (!processes) return report(as_user_error(std::current_exception()), json);
    return end_after(std::current_exception(), json, *processes);
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  std::set_terminate(tessera::end_uncaught);
  tessera::open_closed_streams();
  tessera::make_write_errors_visible();
  return tessera::guarded_run({argv + 1, argv + argc});
}
