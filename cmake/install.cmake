# What an installation has: the program, the libraries with their headers, and the package `tessera` of CMake:
#
#     find_package(tessera REQUIRED)
#     target_link_libraries(my_program PRIVATE tessera::training_engine)
include(CMakePackageConfigHelpers)

set(TESSERA_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(TARGETS tessera RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION include/tessera
        FILES_MATCHING PATTERN "*.h" PATTERN testing EXCLUDE PATTERN cli EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera)
install(EXPORT tessera NAMESPACE tessera:: DESTINATION ${TESSERA_PACKAGE_FOLDER} FILE tesseraTargets.cmake)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
                              INSTALL_DESTINATION ${TESSERA_PACKAGE_FOLDER})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
        DESTINATION ${TESSERA_PACKAGE_FOLDER})
