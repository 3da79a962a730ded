# The Debian package: cmake --build build/release --target package (needs dpkg-dev).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME oncerun)
set(CPACK_PACKAGE_VENDOR oncerun)
set(CPACK_PACKAGE_CONTACT "oncerun maintainers <maintainers@oncerun.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run a command's effect once per business date")
set(CPACK_PACKAGE_DESCRIPTION
"Schedulers start jobs twice, late, or never. oncerun stands between cron, a
systemd timer or a person and the command, and makes the command's effect
happen once per job and business date, even when a process is killed or the
host loses power: by a lock, a ledger in SQLite, and a check that is asked
before anything doubtful is started again.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Zones come from tzdata; without it only UTC is known.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS tzdata)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "sqlite3, bash-completion")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

oncerun_install_gz(packaging/changelog.Debian share/doc/oncerun)
install(FILES packaging/lintian-overrides DESTINATION share/lintian/overrides RENAME oncerun)

include(CPack)
