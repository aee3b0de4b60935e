# cmake -DPROGRAM=... -DEXPECTED=... -P compare_output.cmake: runs a lesson and compares what it prints, to the letter.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed ERROR_VARIABLE complaints RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}\n${printed}${complaints}")
endif()
file(READ ${EXPECTED} expected)
if(NOT printed STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} does not print ${EXPECTED}\n--- expected\n${expected}--- printed\n${printed}")
endif()
