// Standard input, output and error, as the program finds and leaves them.
#pragma once

namespace tessera {

/// Opens those that are closed, so that no file that the program opens gets their numbers. What is
/// written to a closed output fails.
void open_closed_streams();

/// Signals of the system that end a program without a message become errors of the write: a file
/// that reaches the limit of file sizes (SIGXFSZ).
void make_write_errors_visible();
/// The same for a pipe that nothing reads any more (SIGPIPE), for a run that must go on without its
/// reader.
void survive_lost_reader();

/// Flushes standard output.
///   throws  UserError (1) when anything that was written to it is lost
void check_standard_output();

}  // namespace tessera
