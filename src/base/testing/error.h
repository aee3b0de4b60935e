// For tests of the messages that users read.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace tessera::error_testing {

/// The three parts of the UserError that `act` throws, which must end the program with `code`;
/// "nothing was thrown" when there is none.
inline std::string message_of(ExitCode code, const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), code);
    return error.what();
  }
  return "nothing was thrown";
}

/// The exit code and the message of the UserError that `act` throws: "78 what\n  why: ..."; "no
/// error" when there is none.
inline std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) {
    return std::to_string(static_cast<int>(error.exit_code())) + " " + error.what();
  }
  return "no error";
}

/// Matches a function that throws a UserError with this message and code.
inline auto throws_user_error(const std::string& message, ExitCode code) {
  return ::testing::Throws<UserError>(
      ::testing::AllOf(::testing::Property(&UserError::what, ::testing::StrEq(message)),
                       ::testing::Property(&UserError::exit_code, code)));
}

}  // namespace tessera::error_testing
