// The commands of the program, each in a source of its name.
#pragma once

#include "base/error.h"
#include "cli/arguments.h"
#include "launch/processes.h"

namespace tessera {

/// Each does what its arguments ask for and prints the result; kDone, or the code of an answer that
/// is no error, such as a failed verification.
///   throws  UserError, InternalError
/// Those that take processes run in several.
ExitCode run_train(const Arguments& arguments, Processes& processes);
ExitCode run_verify(const Arguments& arguments);
ExitCode run_explain(const Arguments& arguments);
ExitCode run_eval(const Arguments& arguments, Processes& processes);
ExitCode run_generate(const Arguments& arguments, Processes& processes);
ExitCode run_inspect(const Arguments& arguments);
ExitCode run_fuzz(const Arguments& arguments);
ExitCode run_solve(const Arguments& arguments);
ExitCode run_launch(const Arguments& arguments);
ExitCode run_demo(const Arguments& arguments);

}  // namespace tessera
