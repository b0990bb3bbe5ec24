// Package clients runs real MySQL clients and says what each of them saw.
//
// A client is a small program below this folder, in the language of its driver:
//
//	java     MySQL Connector/J, MariaDB Connector/J     node    mysql2
//	python   mysql-connector-python, PyMySQL            golang  go-sql-driver/mysql
//	cli      the mariadb client
//
// All of them speak the same numbered script as far as their API allows: a
// login, prepared statements with every type that they can bind, errors,
// several results, LOCAL INFILE, cursors, changes of schema and user, a refused
// login, the end. Each prints a View for what it did. In go a server and a
// directory of packages (Install); out come the views (Client.Run).
//
// The test beside this file compares the events of a running sqlwitness with
// the server's logs and with the views. The program in record writes the small
// recordings of bench/testdata/clients.
package clients
