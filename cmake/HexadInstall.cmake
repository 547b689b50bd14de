# Rules for install() and find_package(hexad): headers under include/hexad, static libraries, recipes, and a script that
# batch scripts call. tools/hexad/CMakeLists.txt installs the program.
include(CMakePackageConfigHelpers)
get_property(HEXAD_LIBS GLOBAL PROPERTY HEXAD_LIBRARIES)
install(TARGETS ${HEXAD_LIBS} EXPORT hexadTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(folder framework parallel layers optim tools/interop tools/train tools/plan tools/scale tools/verify tools/check_cluster tools/hexad)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hexad/${folder}/..
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/hexad USE_SOURCE_PERMISSIONS)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/elastic.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/hexad/tools)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/elastic DESTINATION ${CMAKE_INSTALL_DATADIR}/hexad/tools USE_SOURCE_PERMISSIONS)
install(EXPORT hexadTargets NAMESPACE hexad:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hexad)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hexadConfig.cmake.in ${PROJECT_BINARY_DIR}/hexadConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hexad)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hexadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hexadConfig.cmake ${PROJECT_BINARY_DIR}/hexadConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/hexad)
