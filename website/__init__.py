"""The documentation site: stage the pages, generate the reference, build with MkDocs."""
