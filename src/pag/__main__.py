from pag.cli import main

main()
